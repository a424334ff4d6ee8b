"""The stages of Triton's compiler."""
