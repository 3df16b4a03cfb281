"""What :mod:`paragon.horovod` and :mod:`paragon.byteps` share: the names differ, the work does not."""
