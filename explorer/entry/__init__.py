"""The doors: the command line, the server for agents, the notebook's magics, the demo, and the doctor.

Each only takes words apart, calls what `explorer` itself offers, and prints the answer; nothing else imports from here.
"""
