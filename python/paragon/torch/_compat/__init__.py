"""What :mod:`paragon.horovod` and :mod:`paragon.byteps` share: their names differ, not the work."""
