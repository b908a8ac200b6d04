"""What every stage stands on: values, checks, errors, files, arrays. Imports no other package."""
