"""The stages of Dynamo."""
