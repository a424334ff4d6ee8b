"""All that sees or replaces torch's and triton's insides while they compile: the one group that may name them.

`observe` has the probes: each replaces an attribute of torch once, behind one guard, and emits events. `ladder`
compiles a kernel down to machine code, `absent` answers for a GPU you don't have, `interpret` runs kernels on the CPU, `splice`
puts an edited text in a kernel's place, and `compilers` hands graphs to torch.compile and to other compilers. It answers how a
fact gets out of the compiler; what the fact means is a stage's to say.
"""
