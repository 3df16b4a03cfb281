package data

import (
	"context"
	"fmt"
	"math/rand/v2"
)

// An ExampleReader is a Dataset that needs more than Read gives: random numbers to read by (a
// random crop comes before the pixels have their size), labels wider than one number, or time that
// can run out. A Loader uses it where a Dataset has it.
type ExampleReader interface {
	Dataset
	// LabelWidth is how many numbers Labels of an example has; 0: an example has one class, its
	// Label.
	LabelWidth() int
	// ReadExample reads example i, in [0, Len), into e. It may be called from several
	// goroutines at once. A *BadExampleError says that the example is damaged; any other error
	// ends the reading.
	ReadExample(ctx context.Context, i int, e *Example) error
}

// An Example is what ReadExample fills. The caller makes the room.
type Example struct {
	// Pixels has room for Shape().Size() bytes, channel by channel.
	Pixels []uint8
	// Labels has room for LabelWidth() numbers, which are 0.
	Labels []float32
	// Label is the class; −1: none, so a loss leaves the example out. It is 0 where ReadExample
	// does not set it, as it need not with Labels.
	Label int
	// Draw gives the random numbers of this example in this epoch. Nil: nothing is drawn, as in
	// an evaluation.
	Draw *rand.Rand
}

// An Announcer is a Dataset that reads ahead: a Loader announces the examples that it will read
// soon, in their order. Announce returns at once, and keeps the list. The data set forgets the
// examples when they have been read, or when ctx ends.
type Announcer interface {
	Announce(ctx context.Context, indices []int)
}

// A BadExampleError is of an example that is damaged: its data is at fault, not the storage. A
// Loader with a budget (LoaderConfig.BadExamples) leaves it out.
type BadExampleError struct {
	Example int // its number in the data set

	// Name is where it lies: the file, and the offset in it.
	Name string

	Err error // what is wrong
}

func (e *BadExampleError) Error() string {
	return fmt.Sprintf("example %d (%s): %v", e.Example, e.Name, e.Err)
}

func (e *BadExampleError) Unwrap() error { return e.Err }
