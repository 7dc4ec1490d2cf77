"""What every room needs: arrays, checks, threads, memory, progress, and one door per optional library."""
