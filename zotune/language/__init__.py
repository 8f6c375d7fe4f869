"""Language models as objectives: any Hugging Face classifier or causal model, any labelled text."""
