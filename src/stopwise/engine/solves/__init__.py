"""(K + s I)^-1 B without eigenvectors: a direct factor, preconditioned conjugate gradients, and what they answer."""
