// Package metrics counts what a training run wants to say about itself:
// accuracy, mean loss, throughput, where the time of a step goes, and the
// table and the picture at the end.
//
//	timer := metrics.NewTimer()
//	for {
//		timer.Switch(metrics.Data)
//		batch, err := loader.Next(ctx)
//		timer.Switch(metrics.Compute)
//		// forward and backward; timer.Switch(metrics.Wait) while pulls are open
//		loss.Add(batchLoss, float64(batch.N))
//		accuracy.AddLogits(logits, batch.Labels[:batch.N], classes)
//		rate.Add(batch.N)
//	}
//	timer.Stop()
//
// Timer and Throughput may be used from several goroutines at once; Mean and
// Accuracy belong to one, and those of several workers are added together.
package metrics
