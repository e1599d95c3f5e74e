// Package worker has the commands of workers, among them `rota worker run`, which runs programs.
//
// It never runs what it holds no lease for.
package worker
