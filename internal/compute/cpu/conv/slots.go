package conv

// A slots has the numbers of places in scratch memory. A task takes one while it runs and then puts
// it back, so that there are as many places as threads, not as tasks. Which place a task gets may
// differ from run to run: nothing may depend on it.
type slots chan int

func newSlots(n int) slots {
	s := make(slots, n)
	for i := range n {
		s <- i
	}
	return s
}
