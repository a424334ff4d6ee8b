"""Many traces at once: models × targets × settings × interpreters, by an executor."""
