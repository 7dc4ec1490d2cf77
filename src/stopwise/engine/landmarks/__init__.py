"""Landmarks: a few rows that stand for all (Nystrom)."""
