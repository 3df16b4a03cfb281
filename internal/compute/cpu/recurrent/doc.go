// Package recurrent is LSTM and GRU layers of the CPU executor, forward and backward: op.Recurrent's
// definition, one layer and direction at a time. What does not depend on the step before, x·W_ihᵀ and
// the gradients of weights, is a product outside; here are the steps.
//
// # How it works
//
// A task is some examples with all of their steps: examples do not meet, so threads never wait for
// each other within a pass. W is packed once in a pass and read by all tasks, Wᵀ in panels for
// a = h₋·Wᵀ forward and W for dh = da·W backward. A step multiplies the states of the task's examples,
// rows that stay in the first-level cache, by panel after panel, and then goes over the gates of each
// example once, in vectors. With lengths only the examples that have the step are multiplied.
//
// An element is summed in the same order in tiles of any height, so the bits are the same for any
// cut into tasks, and on any number of threads.
//
// A Plan allocates nothing after New.
package recurrent
