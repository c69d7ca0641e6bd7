"""One file a component: how it is started and how it is known to be ready."""
