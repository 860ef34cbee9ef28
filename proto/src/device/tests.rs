use super::*;

#[test]
fn pci_addresses_of_all_tools_become_one_form() {
    for (text, same) in [
        ("0000:c1:00.0", "0000:c1:00.0"),
        ("00000000:C1:00.0", "0000:c1:00.0"),
        ("c1:1f.7", "0000:c1:1f.7"),
        ("10000:01:00.0", "10000:01:00.0"),
    ] {
        assert_eq!(text.parse::<PciAddress>().unwrap().to_string(), same);
    }
    for text in [
        "",
        "c1",
        "c1:00",
        "0000:c1:20.0",
        "0000:c1:00.8",
        "x:c1:00.0",
        "0:0:c1:00.0",
        ":::.",
        "+1:00.0",
    ] {
        assert!(text.parse::<PciAddress>().is_err(), "{text}");
    }
}

#[test]
fn links_are_the_words_of_the_vendors_tools() {
    for word in ["SIO", "HCCS", "HCCS_SW", "NV18", "PIX", "PXB", "PHB", "NODE", "SYS", "NA"] {
        assert_eq!(word.parse::<Join>().unwrap().to_string(), word);
    }
    assert!("NV".parse::<Join>().is_err());
    assert!("X".parse::<Join>().is_err());
}

#[test]
fn an_inventory_is_the_same_in_any_order_after_sorting() {
    let nic = |name: &str| Nic {
        name: name.into(),
        port: 1,
        pci: None,
        numa: None,
        netdev: None,
        state: PortState::Up,
        link_layer: "Ethernet".into(),
        rate: None,
        gid: None,
        ip: None,
    };
    let mut inventory = Inventory {
        devices: vec![
            Device::new(Vendor::Ascend, 10, "/dev/davinci10"),
            Device::new(Vendor::Ascend, 9, "/dev/davinci9"),
        ],
        nics: vec![nic("mlx5_10"), nic("mlx5_9")],
        links: vec![Link { a: End::Npu(10), b: End::Npu(9), join: Join::Hccs }],
        ..Inventory::default()
    };
    inventory.sort();
    assert_eq!(inventory.devices[0].id, 9);
    assert_eq!(inventory.nics[0].name, "mlx5_9");
    assert_eq!(inventory.join(End::Npu(10), End::Npu(9)), Join::Hccs);
    assert_eq!(inventory.join(End::Npu(9), End::Npu(10)), Join::Hccs);
    assert_eq!(inventory.join(End::Npu(9), End::Npu(11)), Join::Na);
    let text = serde_json::to_string(&inventory).unwrap();
    assert_eq!(serde_json::from_str::<Inventory>(&text).unwrap(), inventory);
}
