"""Arrays: NDArray, its parts, and the functions that make and change arrays. Nothing here knows of symbols."""
