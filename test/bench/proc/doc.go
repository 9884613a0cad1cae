// Package proc starts the processes that the benchmark measures, reads what
// they use, and says on which machine they run. It needs Linux.
//
// Every process that is started ends with [Child.Stop], and with the benchmark
// itself where that is killed.
package proc
