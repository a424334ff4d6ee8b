"""Step through the code that runs in place of the user's: Dynamo's bytecode, each FX graph, Inductor's wrapper."""
