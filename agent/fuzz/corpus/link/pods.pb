A8
teamw-0u-0"&main"huawei.com/Ascend910*vnpuu-9