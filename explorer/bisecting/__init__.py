"""Bisection: which launch is off, what in the compiler brings it about, and that as a script and as marks in the view."""
