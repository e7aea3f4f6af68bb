"""Questions about channels and solutions, one file each."""
