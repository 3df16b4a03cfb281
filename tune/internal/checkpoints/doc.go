// Package checkpoints keeps the checkpoints of a study's trials as folders: it writes them whole or
// not at all, knows which of them the study's log does not have yet or no longer has, and tells
// whether their files are still those that were saved.
package checkpoints
