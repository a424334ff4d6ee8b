"""One line and a link for the words of the texts: instructions, operations, operators, terms. Pure."""
