"""The stages of the C++ compiler."""
