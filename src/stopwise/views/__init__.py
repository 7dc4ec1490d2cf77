"""A fitted model as facts, sentences and curves."""
