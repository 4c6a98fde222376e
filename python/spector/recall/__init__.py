"""Finding memories: options, steps, results."""
