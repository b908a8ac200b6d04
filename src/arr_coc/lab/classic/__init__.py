"""CLASSIC: earlier selectors that nothing on a user's path calls, kept to be compared with and trained."""
