"""Arrays: NDArray, what it is made of, and the functions that make and change them. Nothing here knows of symbols."""
