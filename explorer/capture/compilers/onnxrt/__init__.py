"""ONNX Runtime: an FX graph exported to ONNX, optimised by ONNX Runtime level by level, and run by it."""
