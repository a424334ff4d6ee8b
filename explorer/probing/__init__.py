"""The guard laboratory: call a compiled function in varied ways, and see what is compiled again and why."""
