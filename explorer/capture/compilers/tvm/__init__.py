"""TVM: from Relax to TIR and machine code, and its execution by the Relax virtual machine on the CPU."""
