//! Layers, images and the changes of a review workspace.
