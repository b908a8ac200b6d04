"""What every room stands on: values, checks, errors, files, registries. Imports no other room."""
