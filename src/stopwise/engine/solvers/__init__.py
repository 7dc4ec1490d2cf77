"""From a problem and a plan to a solution: which engine, and what it found."""
