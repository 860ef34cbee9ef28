
>
w-0team1
main)
huawei.com/Ascend910Ascend910-0
