"""The stages of AOTAutograd."""
