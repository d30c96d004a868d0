"""Our attention inside pretrained models. The only room that imports transformers."""
