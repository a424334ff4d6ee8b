"""What is known of GPUs, layouts and words without a compiler: tables of facts, each with its source.

`gpus` has the figures of each GPU that can be named as a target, `layouts` the maps from a thread's registers to a tensor's
elements, `help` a sentence for each operator, instruction and word of the compiler. It answers what a name means and how
large or fast a GPU is. Nothing of torch or triton is imported here.
"""
