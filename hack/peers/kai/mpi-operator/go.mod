module muster.dev/peers/mpi-operator

go 1.23

require github.com/kubeflow/mpi-operator v0.6.0
