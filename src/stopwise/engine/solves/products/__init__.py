"""How are rows left out where no matrix is held?"""
