"""The plain values that flow through the explorer."""
