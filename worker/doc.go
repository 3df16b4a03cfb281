// Package worker is the training step of one worker process and the loop around it.
//
// A Trainer joins a store with the compiled model of each local device. Its Step runs forward and
// backward on all devices; as soon as a parameter's gradient is final on every device it is pushed
// (the store sums the devices), earlier layers first when several wait, and its new value is pulled
// straight into the devices' parameters while the backward pass of the other layers goes on. The
// next Step waits for a parameter only when its forward pass comes to it.
//
//	trainer, err := worker.NewTrainer(ctx, worker.Config{Store: kv, Programs: programs, Optimizer: optim.Config{Name: "adam", LearningRate: 0.001}})
//	for { // each batch
//		// fill the programs' inputs
//		err = trainer.Step(ctx, []int{64})
//	}
//	err = trainer.Flush(ctx)
//
// Fit does this over epochs, with evaluation, progress, checkpoints, resume, a clean stop of all
// workers (FitConfig.Stop), and of one worker while the others go on (FitConfig.Leave). The
// optimizer runs on the servers, or, with Config.UpdateOnWorker, on every worker, which then pulls
// the mean gradient.
//
// # What is divided by what
//
// Each device computes the sum of the gradients of its examples; the worker pushes the sum over its
// devices with what its losses were divided by as the weight, its labels that count or its
// examples; the servers divide the sum over workers by the sum of weights. So the update is that of
// the mean loss over the global batch: W workers with batch B/W take the steps of one worker with
// batch B. (Config.Reduction "sum" gives the sum up to the optimizer instead.) Batch norm
// normalises over each device's own batch, and its running statistics are averaged over workers at
// the end of an epoch.
//
// # Short batches
//
// Step takes the number of examples that count on each device, the first ones of its inputs: the
// last batch of an epoch, of an elastic division or of a smaller share has fewer. The rest is
// padding, which has no part in losses of package nn, in gradients and in batch norm's statistics;
// a loss of another kind averages by nn.ExampleWeights. A program in which padding would count
// takes whole batches only; Fit fails before the first step.
//
// # Accumulation
//
// A step may be taken in several runs, each a forward and a backward pass over one micro-batch:
// Accumulate adds a run's gradients on this worker, and Step, with the last run, pushes the sums.
// The update is that of one run over all examples of the step. ImageFeedConfig.Accumulation makes
// Fit do so.
//
// # Workers that wait less
//
// For slow links a store may be made with local steps (kvstore.WithLocalSteps(H)). A worker then
// takes H steps by itself with Config.Optimizer, and only then pushes the difference of its values
// since the last round. The servers average these differences, weighted by examples, and apply
// Config.Outer. One round takes the place of H: 1/H of the bytes, and workers wait for each other
// once in H steps. Sync closes a round early; Fit does so at the end of an epoch, and agrees on a
// stop at the end of a round.
//
// In an asynchronous store workers do not wait for each other, except as kvstore.WithStaleness
// says. TakeStaleness and the report say how old the values were that a worker trained on.
//
// # Workers that come and go
//
// The examples of an epoch have an order, by default sampler.Permutation: all are mixed by (seed,
// epoch) before they are divided among the workers. A checkpoint names it, and a worker that joins
// takes over that of the others (OrderedFeed).
//
// Workers may join, leave and be lost while Fit runs (stores dist_sync and dist_device_sync). In
// each step all workers agree whether the membership changes after it; what is left of the epoch is
// then divided over the new members, so that each example of an epoch is used exactly once by steps
// that count (DividedFeed, Partition, FitConfig.OnUsed). The mean over all examples of a step needs
// no rescaling when the number of workers changes; the global batch changes with it, and with
// Reduction "sum" the size of a step, too. A worker that joins runs the same program: it gets the
// values, the running statistics of the last average and, with local steps, a new inner optimizer.
// With Config.UpdateOnWorker and in dist_async no worker can join.
//
// The words for who reads what: a pass is one reading of the data (an epoch, unless the batch size
// changes). A division is what remains of a pass after some cuts, shared by the workers; without
// cuts it is the whole pass. A cut says how far each had come in the division before it. A part is a
// number from 0, the rank of a worker when the division was made, and a share is the examples of a
// part. A Partition says in which step a worker uses which examples of its share.
//
// # Evaluation
//
// Fit divides the examples of a DividedEvaluator among the workers and adds up what they found; all
// have the same scores. Scores are loss, accuracy and metrics of one's own (package metrics).
// EarlyStop ends a run by them.
//
// # Batch sizes that change
//
// With FitConfig.Adapt the batch size changes while Fit runs: the servers measure the noise of the
// gradient and scale each step's learning rate, rank 0 chooses the batch with the highest goodput,
// and all workers change after the same step (AdaptConfig). An epoch then is the progress that a
// pass over the data makes at the initial batch size.
package worker
