package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"runtime"
	"strings"
)

const (
	indexType    = "application/vnd.oci.image.index.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar"
)

// writeImage writes OUT, an OCI image of this machine's architecture as a tar file that containerd imports
// under NAME. It has one layer: the files SOURCE:TARGET, links =POINTS_AT:TARGET, and the directories they need.
func writeImage(out, name, entrypoint string, files []string) error {
	layer, err := layerOf(files)
	if err != nil {
		return err
	}
	blobs := map[string][]byte{}
	describe := func(kind string, content []byte) map[string]any {
		digest := fmt.Sprintf("%x", sha256.Sum256(content))
		blobs[digest] = content
		return map[string]any{"mediaType": kind, "digest": "sha256:" + digest, "size": len(content)}
	}
	layerBlob := describe(layerType, layer)
	platform := map[string]any{"architecture": runtime.GOARCH, "os": "linux"}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": []string{entrypoint}, "Env": []string{"PATH=/bin"}, "WorkingDir": "/"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []any{layerBlob["digest"]}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": describe(configType, config), "layers": []any{layerBlob},
	})
	if err != nil {
		return err
	}
	entry := describe(manifestType, manifest)
	entry["platform"] = platform
	entry["annotations"] = map[string]any{"io.containerd.image.name": name}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": indexType, "manifests": []any{entry}})
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	add := func(name string, content []byte) error { return addFile(writer, name, 0o644, content) }
	if err := add("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)); err != nil {
		return err
	}
	for digest, content := range blobs {
		if err := add("blobs/sha256/"+digest, content); err != nil {
			return err
		}
	}
	if err := add("index.json", index); err != nil {
		return err
	}
	if err := writer.Close(); err != nil {
		return err
	}
	return os.WriteFile(out, archive.Bytes(), 0o644)
}

// layerOf is the tar of the files, each one executable.
func layerOf(files []string) ([]byte, error) {
	var layer bytes.Buffer
	writer := tar.NewWriter(&layer)
	made := map[string]bool{".": true, "/": true}
	var directory func(name string) error
	directory = func(name string) error {
		if made[name] {
			return nil
		}
		made[name] = true
		if err := directory(path.Dir(name)); err != nil {
			return err
		}
		return writer.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755})
	}
	for _, needed := range []string{"dev", "etc", "proc", "sys", "tmp"} {
		if err := directory(needed); err != nil {
			return nil, err
		}
	}
	for _, file := range files {
		source, target, found := strings.Cut(file, ":")
		target = strings.TrimPrefix(path.Clean(target), "/")
		if !found || target == "" {
			return nil, fmt.Errorf("%q is not SOURCE:TARGET", file)
		}
		if err := directory(path.Dir(target)); err != nil {
			return nil, err
		}
		if link, isLink := strings.CutPrefix(source, "="); isLink {
			header := &tar.Header{Typeflag: tar.TypeSymlink, Name: target, Linkname: link, Mode: 0o777}
			if err := writer.WriteHeader(header); err != nil {
				return nil, err
			}
			continue
		}
		content, err := os.ReadFile(source)
		if err != nil {
			return nil, err
		}
		if err := addFile(writer, target, 0o755, content); err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return layer.Bytes(), nil
}

func addFile(writer *tar.Writer, name string, mode int64, content []byte) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content))}
	if err := writer.WriteHeader(header); err != nil {
		return err
	}
	_, err := writer.Write(content)
	return err
}
