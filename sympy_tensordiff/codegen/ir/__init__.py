"""The form that all backends read: loop nests, their traversals, and their laws."""
