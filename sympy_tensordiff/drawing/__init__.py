"""Pictures of expressions and of their derivatives."""
