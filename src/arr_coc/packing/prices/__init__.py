"""What pictures cost: how each provider counts visual tokens, as data with date and source."""
