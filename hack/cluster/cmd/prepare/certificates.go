package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// leaf is one certificate signed by the cluster's CA.
type leaf struct {
	name   string // file name without .crt and .key
	user   string // common name: the user name if it is a client
	groups []string
	usage  []x509.ExtKeyUsage
}

var (
	server = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	client = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	both   = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
)

// clients are the users that get a kubeconfig.
var clients = []leaf{
	{name: "admin", user: "kubernetes-admin", groups: []string{"system:masters"}, usage: client},
	{name: "kube-controller-manager", user: "system:kube-controller-manager", usage: client},
	{name: "kube-scheduler", user: "system:kube-scheduler", usage: both}, // it serves /readyz
	{name: "jobset-controller", user: jobSetUser, usage: client},
	{name: "node", user: nodeUser, groups: []string{"system:nodes"}, usage: client},
	{name: "kube-proxy", user: "system:kube-proxy", usage: client}, // Kubernetes binds a role to that name
	{name: "dns", user: "dns", usage: client},                      // dns.yaml gives it a role
}

// others are servers, and the clients that need no kubeconfig. etcd checks itself as a client, too.
var others = []leaf{
	{name: "etcd", user: "etcd", usage: both},
	{name: "etcd-client", user: "kube-apiserver-etcd-client", usage: client},
	{name: "kube-apiserver", user: "kube-apiserver", usage: server},
	{name: "kubelet-client", user: "kube-apiserver-kubelet-client", groups: []string{"system:masters"}, usage: client},
	{name: "jobset-webhook/tls", user: "jobset-webhook", usage: server},
	{name: "kubelet", user: nodeUser, groups: []string{"system:nodes"}, usage: server},
}

// The node that "up --node" makes: its name and its address.
const (
	nodeUser    = "system:node:muster-node"
	nodeAddress = "10.254.0.1"
)

// addresses are in the certificate of every server: loopback, the Service "kubernetes", the node.
var addresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1), net.ParseIP(nodeAddress)}

// validity is long enough for a cluster that somebody forgot, and short enough to be harmless.
const validity = 365 * 24 * time.Hour

// writeCertificates makes DIR with a CA, the certificates above and the key pair that signs
// ServiceAccount tokens; every key is P-256. A directory that has all of them stays as it is.
func writeCertificates(dir string) error {
	leaves := append(append([]leaf{}, clients...), others...)
	done := filepath.Join(dir, "complete")
	if _, err := os.Stat(done); err == nil && areThere(dir, leaves) {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(dir, "jobset-webhook"), 0o700); err != nil {
		return err
	}
	caKey, err := writeKey(filepath.Join(dir, "ca.key"))
	if err != nil {
		return err
	}
	ca := template("muster-test-cluster-ca", nil)
	ca.IsCA = true
	ca.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	if err := writeCertificate(filepath.Join(dir, "ca.crt"), ca, ca, caKey, caKey); err != nil {
		return err
	}
	for _, leaf := range leaves {
		key, err := writeKey(filepath.Join(dir, leaf.name+".key"))
		if err != nil {
			return err
		}
		cert := template(leaf.user, leaf.groups)
		cert.KeyUsage = x509.KeyUsageDigitalSignature
		cert.ExtKeyUsage = leaf.usage
		if leaf.usage[0] == x509.ExtKeyUsageServerAuth {
			cert.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
			cert.IPAddresses = addresses
		}
		if err := writeCertificate(filepath.Join(dir, leaf.name+".crt"), cert, ca, key, caKey); err != nil {
			return err
		}
	}
	tokenKey, err := writeKey(filepath.Join(dir, "service-account.key"))
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&tokenKey.PublicKey)
	if err != nil {
		return err
	}
	if err := writePEM(filepath.Join(dir, "service-account.pub"), "PUBLIC KEY", public); err != nil {
		return err
	}
	return os.WriteFile(done, nil, 0o600)
}

// areThere is false for a directory that an older version wrote.
func areThere(dir string, leaves []leaf) bool {
	for _, leaf := range leaves {
		if _, err := os.Stat(filepath.Join(dir, leaf.name+".crt")); err != nil {
			return false
		}
	}
	return true
}

func template(user string, groups []string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		Subject:               pkix.Name{CommonName: user, Organization: groups},
		NotBefore:             now.Add(-5 * time.Minute),
		NotAfter:              now.Add(validity),
		BasicConstraintsValid: true,
	}
}

func writeKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePEM(path, "EC PRIVATE KEY", der)
}

func writeCertificate(path string, cert, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	cert.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, signer)
	if err != nil {
		return fmt.Errorf("certificate %s: %w", path, err)
	}
	return writePEM(path, "CERTIFICATE", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
