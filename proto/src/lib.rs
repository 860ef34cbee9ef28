//! Every agreement between Muster's programs, and with the kubelet.
