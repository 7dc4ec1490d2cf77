"""What are the eigenvalues, and how sure are we?"""
