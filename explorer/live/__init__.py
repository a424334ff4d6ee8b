"""What only the process that made a trace can do: its result, running, checking, timing, compiling to assembly."""
